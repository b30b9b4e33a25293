// Signs the requests of standard input with the TypeScript client: `sign.mjs CLIENT`.

import { readFileSync } from "node:fs";

const { signed } = await import(process.argv[2]);
const requests = JSON.parse(readFileSync(0, "utf8"));
const headers = ({ url, body, region, credentials, at }) => signed(new URL(url), body, region, credentials, new Date(at));
console.log(JSON.stringify(requests.map(headers)));
