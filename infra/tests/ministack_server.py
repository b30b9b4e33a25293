"""Runs ministack, and adds what AWS does and ministack does not: three condition keys, and numbers in parameters.

second_opinion.py runs this script with the Python of .venv/ministack. Without it, ministack would deny calls
that the roles in template.yaml allow: it does not set `dynamodb:LeadingKeys`, does not know the path of
`ssm:GetParametersByPath`, and sets `aws:SecureTransport` to false, because clients use no TLS on the
loopback interface. The value of a template parameter is a text. CloudFormation converts it to a number where the
resource needs one, and ministack compares the text with a number.
"""

import json
from collections.abc import Iterator

import ministack.app
from ministack.core import iam_actions
from ministack.services import lambda_svc

PARTITION_KEY = "pk"

context_without_keys = iam_actions.dynamodb_service_context
resource_without_path = iam_actions.extract_resource_arn
origin_without_tls = ministack.app.pin_request_origin
concurrency_of_numbers = lambda_svc._sqs_esm_concurrency


def context_with_keys(body: bytes) -> dict:
    keys = list(partition_keys(json.loads(body or b"{}")))
    return context_without_keys(body) | ({"dynamodb:LeadingKeys": keys} if keys else {})


def partition_keys(request: object) -> Iterator[str]:
    """Returns the partition keys that a request names, directly or in a transaction."""
    if isinstance(request, list):
        for part in request:
            yield from partition_keys(part)
    elif isinstance(request, dict):
        for name, part in request.items():
            if name in ("Key", "Item") and isinstance(part, dict) and PARTITION_KEY in part:
                yield part[PARTITION_KEY]["S"]
            else:
                yield from partition_keys(part)


def resource_with_path(service, method, path, headers, body, query, region, account) -> str:
    if service == "ssm" and (secrets := json.loads(body or b"{}").get("Path")):
        return f"arn:aws:ssm:{region}:{account}:parameter/{secrets.strip('/')}"
    return resource_without_path(service, method, path, headers, body, query, region, account)


def origin_with_tls(source_ip: str, _secure_transport: bool) -> None:
    origin_without_tls(source_ip, True)


def concurrency_of_texts(mapping: dict, *others: object) -> int:
    scaling = mapping.get("ScalingConfig") or {}
    if "MaximumConcurrency" in scaling:
        scaling["MaximumConcurrency"] = int(scaling["MaximumConcurrency"])
    return concurrency_of_numbers(mapping, *others)


iam_actions.dynamodb_service_context = context_with_keys
iam_actions.extract_resource_arn = resource_with_path
ministack.app.pin_request_origin = origin_with_tls
lambda_svc._sqs_esm_concurrency = concurrency_of_texts

if __name__ == "__main__":
    ministack.app.main()
