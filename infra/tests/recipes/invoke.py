"""`python invoke.py FILE` imports the handler of a function, and invokes it with each payload of a list at the same time.

Prints the values and the types of the errors, as Lambda returns them.
"""

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor

specification = importlib.util.spec_from_file_location("handler", sys.argv[1])
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)


def invoke(payload):
    try:
        return {"value": module.handler(payload, None)}
    except Exception as error:
        return {"errorType": type(error).__name__}


payloads = json.load(sys.stdin)
with ThreadPoolExecutor(len(payloads)) as pool:
    print(json.dumps(list(pool.map(invoke, payloads))))
