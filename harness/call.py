"""Call a function in this process and print what it returns as JSON; see
``timing.in_new_process``:
``python -m harness.call MODULE FUNCTION ARGUMENTS [MODULE TO IMPORT BEFORE ...]``."""

import json
import sys
from importlib import import_module

if __name__ == "__main__":
    module, function, arguments, *first_imports = sys.argv[1:]
    for name in first_imports:
        import_module(name)
    print(json.dumps(getattr(import_module(module), function)(*json.loads(arguments))))
