// https://github.com/octokit/webhooks.js#readme
import { createServer } from "node:http";
import { Webhooks, createNodeMiddleware } from "@octokit/webhooks";

const webhooks = new Webhooks({ secret: process.env.SECRET });

webhooks.onAny(({ id, name }) => {
  console.log(name, "event received", id);
});

const middleware = createNodeMiddleware(webhooks, { path: "/webhook" });
const server = createServer(async (req, res) => {
  if (await middleware(req, res)) return;
  res.writeHead(404);
  res.end();
});
server.listen(process.env.PORT, () => console.log("port", server.address().port));
