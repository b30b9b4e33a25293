# https://opentelemetry.io/docs/languages/python/instrumentation/
from flask import Flask, jsonify
from opentelemetry import trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from serve import serve

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
app = Flask(__name__)
FlaskInstrumentor().instrument_app(app)


@app.route("/webhook", methods=["POST"])
def webhook():
    return ""


@app.route("/spans")
def spans():
    return jsonify(
        [
            {
                "method": span.name.split(" ")[0],
                "trace": trace.format_trace_id(span.context.trace_id),
                "parent": span.parent and trace.format_span_id(span.parent.span_id),
            }
            for span in exporter.get_finished_spans()
        ]
    )


serve(app)
