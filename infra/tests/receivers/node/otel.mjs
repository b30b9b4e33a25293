// https://opentelemetry.io/docs/languages/js/instrumentation/
import { createRequire } from "node:module";
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { HttpInstrumentation } from "@opentelemetry/instrumentation-http";
import { InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();
registerInstrumentations({ instrumentations: [new HttpInstrumentation()] });

// The instrumentation changes the module when it is required.
const { createServer } = createRequire(import.meta.url)("node:http");

const exported = () =>
  exporter.getFinishedSpans().map((span) => ({
    method: span.name.split(" ")[0],
    trace: span.spanContext().traceId,
    parent: span.parentSpanContext?.spanId ?? null,
  }));

const server = createServer((req, res) => {
  req.resume();
  req.on("end", () => {
    res.writeHead(200, { "content-type": "application/json" });
    res.end(req.url === "/spans" ? JSON.stringify(exported()) : "{}");
  });
});
server.listen(process.env.PORT, () => console.log("port", server.address().port));
