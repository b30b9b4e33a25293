// Requests events from the Runtime API, as Lambda's own client does, but with less work.
import http from 'node:http';

// The option `--alias:handler=FILE` of the bundler selects the program.
import { handler } from 'handler';

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
    const request = http.request({ host, port, agent, method, path: `/2018-06-01/runtime/${path}`, headers }, (answer) => {
      const chunks = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('end', () => resolve({ headers: answer.headers, body: Buffer.concat(chunks).toString() }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

for (;;) {
  const event = await ask('GET', 'invocation/next');
  const id = event.headers['lambda-runtime-aws-request-id'];
  const deadline = Number(event.headers['lambda-runtime-deadline-ms']);
  const context = { awsRequestId: id, getRemainingTimeInMillis: () => deadline - Date.now() };
  const answer = await handler(JSON.parse(event.body), context);
  await ask('POST', `invocation/${id}/response`, JSON.stringify(answer));
}
