"""Signs and verifies webhooks with the providers' own SDKs, like signers.mjs."""

import json
import sys
import time
from datetime import datetime, timezone
from urllib.parse import parse_qsl

from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from twilio.request_validator import RequestValidator


class Slack:
    @staticmethod
    def sign(request):
        at = str(int(time.time()))
        signature = SignatureVerifier(request["secret"]).generate_signature(
            timestamp=at, body=request["body"]
        )
        return {"x-slack-request-timestamp": at, "x-slack-signature": signature}

    @staticmethod
    def verify(request):
        verifier = SignatureVerifier(request["secret"])
        return verifier.is_valid_request(request["body"], request["headers"])


class Standard:
    @staticmethod
    def sign(request):
        now = datetime.now(tz=timezone.utc)
        return {
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(request["secret"]).sign(
                request["headers"]["webhook-id"], now, request["body"]
            ),
        }

    @staticmethod
    def verify(request):
        try:
            Webhook(request["secret"]).verify(request["body"], request["headers"])
        except WebhookVerificationError:
            return False
        return True


class Twilio:
    @staticmethod
    def sign(request):
        fields = dict(parse_qsl(request["body"]))
        signature = RequestValidator(request["secret"]).compute_signature(request["url"], fields)
        return {"x-twilio-signature": signature}

    @staticmethod
    def verify(request):
        fields = dict(parse_qsl(request["body"]))
        signature = request["headers"]["x-twilio-signature"]
        return RequestValidator(request["secret"]).validate(request["url"], fields, signature)


SDKS = {"slack": Slack, "standardwebhooks": Standard, "twilio": Twilio}

for line in sys.stdin:
    request = json.loads(line)
    sdk = SDKS[request["sdk"]]
    if request["do"] == "verify":
        answer = {"valid": bool(sdk.verify(request))}
    else:
        answer = {**request, "headers": {**request["headers"], **sdk.sign(request)}}
    print(json.dumps(answer))
