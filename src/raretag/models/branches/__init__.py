"""How backbones and heads are wired to a model: inputs to what a method's loss takes."""
