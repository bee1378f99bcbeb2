"""`python -m sparkmirror`, and what `spark-submit` is given."""

from sparkmirror.cli import main

if __name__ == "__main__":
    main()
