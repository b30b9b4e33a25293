// https://github.com/discord/discord-interactions-js#readme
import express from "express";
import { InteractionResponseType, InteractionType, verifyKeyMiddleware } from "discord-interactions";

const app = express();

app.post("/webhook", verifyKeyMiddleware(process.env.SECRET), (req, res) => {
  const message = req.body;
  if (message.type === InteractionType.APPLICATION_COMMAND) {
    res.send({
      type: InteractionResponseType.CHANNEL_MESSAGE_WITH_SOURCE,
      data: { content: "Hello world" },
    });
  }
});

const server = app.listen(process.env.PORT, () => console.log("port", server.address().port));
