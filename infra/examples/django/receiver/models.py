from django.db import models


class Handled(models.Model):
    """The idempotency key of an event whose work is done."""

    key = models.CharField(primary_key=True, max_length=255)


class Job(models.Model):
    """The work of this example. Replace it by your own models."""

    body = models.JSONField()
