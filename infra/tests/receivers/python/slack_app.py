# https://docs.slack.dev/tools/python-slack-sdk/reference/signature
import os

from flask import Flask, make_response, request
from slack_sdk.signature import SignatureVerifier

from serve import serve

signature_verifier = SignatureVerifier(signing_secret=os.environ["SECRET"])
app = Flask(__name__)


@app.route("/webhook", methods=["POST"])
def slack_app():
    if not signature_verifier.is_valid_request(request.get_data(), request.headers):
        return make_response("invalid request", 403)
    print(request.json["event"]["type"])
    return make_response("", 200)


serve(app)
