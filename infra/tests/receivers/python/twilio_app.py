# https://www.twilio.com/docs/usage/tutorials/how-to-secure-your-flask-app-by-validating-incoming-twilio-requests
import os
from functools import wraps

from flask import Flask, abort, request
from twilio.request_validator import RequestValidator
from twilio.twiml.messaging_response import MessagingResponse

from serve import serve

app = Flask(__name__)


def validate_twilio_request(f):
    """Validates that incoming requests genuinely originated from Twilio"""

    @wraps(f)
    def decorated_function(*args, **kwargs):
        validator = RequestValidator(os.environ["SECRET"])
        request_valid = validator.validate(
            request.url, request.form, request.headers.get("X-TWILIO-SIGNATURE", "")
        )
        if request_valid:
            return f(*args, **kwargs)
        return abort(403)

    return decorated_function


@app.route("/webhook", methods=["POST"])
@validate_twilio_request
def incoming_message():
    print(request.values["MessageStatus"])
    return str(MessagingResponse())


serve(app)
