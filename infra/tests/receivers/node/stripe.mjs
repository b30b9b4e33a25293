// https://docs.stripe.com/webhooks/quickstart
import express from "express";
import Stripe from "stripe";

const stripe = new Stripe("sk_test_51");
const endpointSecret = process.env.SECRET;
const app = express();

app.post("/webhook", express.raw({ type: "application/json" }), (request, response) => {
  const signature = request.headers["stripe-signature"];
  let event;
  try {
    event = stripe.webhooks.constructEvent(request.body, signature, endpointSecret);
  } catch (err) {
    console.log("Webhook signature verification failed.", err.message);
    return response.sendStatus(400);
  }
  switch (event.type) {
    case "invoice.paid":
      console.log(`Invoice ${event.data.object.id} was paid.`);
      break;
    default:
      console.log(`Unhandled event type ${event.type}.`);
  }
  response.send();
});

const server = app.listen(process.env.PORT, () => console.log("port", server.address().port));
