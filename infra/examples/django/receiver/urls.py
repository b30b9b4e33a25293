from django.urls import path

from .views import receive

urlpatterns = [path("webhooks", receive)]
