"""scikit-learn: a pipeline and a grid search on labels of which a quarter was never looked at."""

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from raretag.sklearn import Folds, RaretagClassifier, scorer

draw = np.random.default_rng(0)
X = draw.normal(size=(300, 8))
Y = (X[:, :4] > [0.0, 0.5, 1.0, 1.5]).astype(float)  # the last label is rare
Y[draw.random(Y.shape) < 0.25] = np.nan

search = GridSearchCV(
    make_pipeline(StandardScaler(), RaretagClassifier(effort="quick")),
    {"raretagclassifier__method": ["logistic_regression", "auto"]},
    scoring=scorer("mAP"),
    cv=Folds(3),
)
search.fit(X, Y)
print(search.best_params_, f"mAP {search.best_score_:.3f}, of the rare label", end=" ")
print(f"{scorer('mAP', labels=[3])(search, X, Y):.3f}; chosen for the first item: {search.predict(X[:1])[0]}")
