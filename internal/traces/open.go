package traces

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// Wanted reports whether the standard environment asks for traces: it names an exporter or an endpoint, and does not turn them off.
func Wanted(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	default:
		return exporter != "none"
	}
}

// Options describe the process in its traces.
type Options struct {
	Version  string
	Instance string // of the process
	Tenant   string
	Getenv   func(string) string
	Logger   *slog.Logger
	Load     Load // of an orchestrator
}

// Open starts the Traces of an orchestrator as the environment says; the exporter and the SDK read most of it themselves. Exporting begins in the
// background: a collector that is not there, refuses or hangs costs spans, and is logged at most once a minute. An error names a variable that has a
// wrong value.
func Open(ctx context.Context, o Options) (*Traces, error) {
	exporter, res, err := o.open(ctx, "cortex")
	if err != nil {
		return nil, err
	}
	content := strings.EqualFold(o.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"), "true")
	return start(exporter, content, o.Load, o.Logger, sdktrace.WithResource(res)), nil
}

// OpenAgent is [Open] for the process of an agent. close exports what is left, for at most two seconds.
func OpenAgent(ctx context.Context, name string, o Options) (a *Agents, closed func(), err error) {
	exporter, res, err := o.open(ctx, "cortex-agent-"+name)
	if err != nil {
		return nil, nil, err
	}
	a = newAgents(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter))
	return a, func() { shutDown(a.provider, o.Logger) }, nil
}

// open makes the exporter and the resource of a service that has this name unless the environment says otherwise.
func (o Options) open(ctx context.Context, name string) (exporter sdktrace.SpanExporter, res *resource.Resource, err error) {
	if exporter := o.Getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return nil, nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%q: it is otlp or none", exporter)
	}
	variable := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if o.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(o.Getenv(variable), "http/protobuf"); protocol {
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	case "http/protobuf":
		exporter, err = otlptracehttp.New(ctx)
	default:
		return nil, nil, fmt.Errorf("%s=%q: it is grpc or http/protobuf", variable, protocol)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	rarely := rate.Sometimes{First: 1, Interval: complained}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		rarely.Do(func() { o.Logger.Warn("traces are not exported", "err", err) })
	}))
	res, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", cmp.Or(o.Getenv("OTEL_SERVICE_NAME"), name)), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Instance), attribute.String("service.namespace", cmp.Or(o.Tenant, "default")),
	), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return exporter, res, nil
}
