// https://www.twilio.com/docs/usage/tutorials/how-to-secure-your-express-app-by-validating-incoming-twilio-requests
import express from "express";
import twilio from "twilio";

const app = express();

app.use(express.urlencoded({ extended: false }));

app.post("/webhook", twilio.webhook({ validate: true }, process.env.SECRET), (req, res) => {
  console.log(req.body.MessageStatus);
  const twiml = new twilio.twiml.MessagingResponse();
  res.type("text/xml").send(twiml.toString());
});

const server = app.listen(process.env.PORT, () => console.log("port", server.address().port));
