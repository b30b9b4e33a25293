"""Verifies the signature of Stripe: https://docs.stripe.com/webhooks#verify-manually"""

import hashlib
import hmac
import os
import time

SECRET = os.environ["SIGNING_SECRET"].encode()


def is_verified(event):
    signature = event["headers"].get("stripe-signature", "")
    parts = dict(part.split("=", 1) for part in signature.split(",") if "=" in part)
    wanted = hmac.new(SECRET, f"{parts.get('t')}.{event['body']}".encode(), hashlib.sha256).hexdigest()
    is_recent = abs(time.time() - int(parts.get("t", 0))) < 300
    return is_recent and hmac.compare_digest(wanted, parts.get("v1", ""))
