"""Speed and accuracy, measured: ``python -m benchmarks NAME``.

``catalogue`` lists the benchmarks. A benchmark is a function that returns rows, one for each
measurement. Times are the best of several repeats, and things that are compared take turns in one
process. Libraries to compare with come with ``pip install -e '.[bench]'``; a benchmark whose
library is missing is skipped, and says so. The paper's tables are in ``experiments``.
"""
