# https://docs.stripe.com/webhooks/quickstart?lang=python
import os

import stripe
from flask import Flask, jsonify, request

from serve import serve

endpoint_secret = os.environ["SECRET"]
app = Flask(__name__)


@app.route("/webhook", methods=["POST"])
def webhook():
    payload = request.data
    sig_header = request.headers["STRIPE_SIGNATURE"]
    try:
        event = stripe.Webhook.construct_event(payload, sig_header, endpoint_secret)
    except ValueError as e:
        return jsonify(error=str(e)), 400
    except stripe.SignatureVerificationError as e:
        return jsonify(error=str(e)), 400
    print(f"Unhandled event type {event['type']}")
    return jsonify(success=True)


serve(app)
