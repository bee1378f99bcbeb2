#!/bin/sh
# The Python of Spark's processes, without the zip files of PySpark that Spark puts first on their path: nothing in them is
# compiled, so that each start would compile some 150 modules. The PySpark beside us is the one that started Spark.
set -f
IFS=:
kept=
for path in $PYTHONPATH; do
    case "$path" in
        */python/lib/py*.zip) ;;
        *) kept="$kept:$path" ;;
    esac
done
unset IFS
PYTHONPATH="${kept#:}" exec "$SPARKMIRROR_PYTHON" "$@"
