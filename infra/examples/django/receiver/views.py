"""Receives the events of the source stripe-main.

Mitt signs each request as Standard Webhooks (sign = "standard"), with the secret stripe-main.
"""

import json

from django.conf import settings
from django.db import OperationalError, transaction
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from .models import Handled, Job

webhook = Webhook(settings.WEBHOOK_SECRET)


@transaction.atomic
def handle(key, event):
    """Stores the key and does the work in one transaction. If the key is stored already, the work is done."""
    _, is_new = Handled.objects.get_or_create(key=key)
    if is_new:
        Job.objects.create(body=event)  # your work


@csrf_exempt  # the signature protects the route
@require_POST
def receive(request):
    try:
        # The signature covers the exact bytes.
        event = webhook.verify(request.body, request.headers)
    except json.JSONDecodeError:
        return HttpResponse(status=422)  # a signed body that is not JSON will never be JSON: this ends the event
    except (WebhookVerificationError, ValueError):
        return HttpResponse(status=401)
    if not isinstance(event, dict):
        return HttpResponse(status=422)
    try:
        # webhook-id is the idempotency key, and the signature covers it.
        handle(request.headers["webhook-id"], event)
    except OperationalError:
        # The database is busy or unavailable. After another error, Django responds with 500, and Mitt repeats the request.
        return HttpResponse(status=429, headers={"retry-after": "10"})
    return HttpResponse(status=200)
