"""Signs and verifies webhooks with the providers' own SDKs, like signers.mjs."""

import json
import sys
import time
from datetime import datetime, timezone
from urllib.parse import parse_qsl

from openai import InvalidWebhookSignatureError, OpenAI
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from stripe import SignatureVerificationError, WebhookSignature
from svix.webhooks import Webhook as SvixWebhook
from svix.webhooks import WebhookVerificationError as SvixVerificationError
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


class Svix:
    @staticmethod
    def sign(request):
        now = datetime.now(tz=timezone.utc)
        return {
            "svix-timestamp": str(int(now.timestamp())),
            "svix-signature": SvixWebhook(request["secret"]).sign(
                request["headers"]["svix-id"], now, request["body"]
            ),
        }

    @staticmethod
    def verify(request):
        try:
            SvixWebhook(request["secret"]).verify(request["body"], request["headers"])
        except SvixVerificationError:
            return False
        return True


class Stripe:
    """The SDK only verifies."""

    @staticmethod
    def verify(request):
        header = request["headers"]["stripe-signature"]
        try:
            WebhookSignature.verify_header(request["body"], header, request["secret"], 300)
        except SignatureVerificationError:
            return False
        return True


class OpenAi:
    """The SDK only verifies."""

    client = OpenAI(api_key="of-nobody")

    @staticmethod
    def verify(request):
        verify = OpenAi.client.webhooks.verify_signature
        try:
            verify(request["body"], request["headers"], secret=request["secret"])
        except InvalidWebhookSignatureError:
            return False
        return True


SDKS = {
    "openai": OpenAi,
    "slack": Slack,
    "standardwebhooks": Standard,
    "stripe": Stripe,
    "svix": Svix,
    "twilio": Twilio,
}

for line in sys.stdin:
    request = json.loads(line)
    sdk = SDKS[request["sdk"]]
    if request["do"] == "verify":
        answer = {"valid": bool(sdk.verify(request))}
    else:
        answer = {**request, "headers": {**request["headers"], **sdk.sign(request)}}
    print(json.dumps(answer))
