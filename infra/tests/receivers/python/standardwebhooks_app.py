# https://github.com/standard-webhooks/standard-webhooks/tree/main/libraries/python
import os

from flask import Flask, request
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from serve import serve

wh = Webhook(os.environ["SECRET"])
app = Flask(__name__)


@app.route("/webhook", methods=["POST"])
def webhook():
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        msg = wh.verify(request.get_data(), headers)
    except WebhookVerificationError as e:
        return {"error": str(e)}, 400
    print(msg["type"])
    return {}


serve(app)
