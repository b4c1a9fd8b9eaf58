"""`python -m tokenctx`: the command `tokenctx`."""

from tokenctx._cli.main import main

if __name__ == "__main__":
    main()
