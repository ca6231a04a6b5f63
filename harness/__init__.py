"""What experiments, benchmarks and stress tests share.

* ``runner``: tasks on several cores, always with the same numbers;
* ``ledger``: results as JSON lines with checksums, which an interrupted run resumes;
* ``records``: results of benchmarks as JSON files with the machine and the versions;
* ``tables``: tables for the terminal, for pages and as CSV;
* ``timing``: times of functions that take turns, in this process or in a new one.
"""
