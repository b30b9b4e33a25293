// `node invoke.mjs FILE` imports the handler of a function, and invokes it with each payload of a list at the same time.
// Prints the values and the types of the errors, as Lambda returns them.
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";

const { handler } = await import(pathToFileURL(process.argv[2]));
const payloads = JSON.parse(readFileSync(0));
const results = payloads.map((payload) =>
  handler(payload).then((value) => ({ value: value ?? null }), (error) => ({ errorType: error.name })),
);
console.log(JSON.stringify(await Promise.all(results)));
