"""The settings that the receiver needs."""

import os

ALLOWED_HOSTS = ["127.0.0.1", "localhost", "app.example.com"]
DATABASES = {
    # Use the database of your service instead: the keys must be in the database that the work changes.
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE", "receiver.db"),
        "OPTIONS": {"timeout": 2, "transaction_mode": "IMMEDIATE"},
    }
}
# The largest body that Mitt sends. Django's default is 2.5 MB.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["receiver"]
ROOT_URLCONF = "receiver.urls"
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this machine")
WEBHOOK_SECRET = os.environ.get("WEBHOOK_SECRET")
