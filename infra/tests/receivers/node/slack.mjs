// https://docs.slack.dev/tools/bolt-js/getting-started
import bolt from "@slack/bolt";

const app = new bolt.App({
  signingSecret: process.env.SECRET,
  authorize: async () => ({ botToken: "xoxb-1", botId: "B1", botUserId: "U1" }),
});

app.event("app_mention", async ({ event, logger }) => {
  logger.info(event.text);
});

const server = await app.start(process.env.PORT);
console.log("port", server.address().port);
