"""Asks what it is told on standard input, a JSON object a line, and prints what came of it."""

import json
import sys

from crawlerfilter import FilterAPIClient, FilterError, InDoubtError

client = FilterAPIClient(url=sys.argv[1], timeout=4, patience=1)
for line in sys.stdin:
    ask = json.loads(line)
    try:
        call = client.check if ask["check"] else client.filter
        told = {"answer": call(ask["filter"], ask["items"])}
    except FilterError as err:
        told = {"code": err.error_code, "in_doubt": isinstance(err, InDoubtError)}
    print(json.dumps(told), flush=True)
