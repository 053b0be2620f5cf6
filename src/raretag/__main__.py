from raretag.cli.main import main

main()
