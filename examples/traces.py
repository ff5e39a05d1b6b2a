"""A ranking as an OpenTelemetry trace, printed to the console.

pip install '.[local]' opentelemetry-sdk
python examples/traces.py

With an OTLP exporter instead, the same spans go to Phoenix, Jaeger, Grafana, or wherever traces are
collected.
"""

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from mcranker import MCRanker

PASSAGES = [
    "Cloth masks filter few of the particles that carry the virus.",
    "N95 masks filter at least 95% of particles and seal against the face.",
    "Hands are washed for twenty seconds.",
]

os.environ["MCRANKER_TRACE_CONTENT"] = "1"  # else without queries, passages and prompts
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
trace.set_tracer_provider(provider)

with MCRanker(team_size=2) as ranker:
    ranking = ranker.rank("best masks against covid", PASSAGES)
print(ranking[0].passage.text)
