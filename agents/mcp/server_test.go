package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The test binary is a server on its standard input and output when this is set.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		if path := os.Getenv("PID"); path != "" {
			_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600)
		}
		fmt.Fprintln(os.Stderr, "the key is", os.Getenv("KEY"))
		if os.Getenv(asFlood) != "" {
			if err := floodTools(); err != nil {
				os.Exit(1)
			}
			return
		}
		if address := os.Getenv(asAddress); address != "" {
			fmt.Fprintln(os.Stderr, serveAt(address))
			os.Exit(1)
		}
		if err := newServer().Run(context.Background(), &sdk.IOTransport{Reader: ears{os.Stdin}, Writer: spoiler{os.Stdout}}); err != nil {
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(asAgent); dir != "" {
		if err := runAgent(dir); err != nil {
			os.Exit(1)
		}
		return
	}
	if scenario := os.Getenv(asProbe); scenario != "" {
		if err := probe(scenario, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, scenario, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// deaf is set when the server reads no more.
var deaf atomic.Bool

// ears reads until deaf is set.
type ears struct{ io.ReadCloser }

func (e ears) Read(p []byte) (int, error) {
	if deaf.Load() {
		select {}
	}
	return e.ReadCloser.Read(p)
}

// spoil makes a message one that the SDK does not read, when it has certain words.
func spoil(message []byte) []byte {
	message = bytes.ReplaceAll(message, []byte(`"NOT A NUMBER"`), []byte("NaN"))
	return bytes.ReplaceAll(message, []byte(`"TOO DEEP"`), []byte(strings.Repeat("[", 1100)+strings.Repeat("]", 1100)))
}

// spoiler spoils the messages of a program.
type spoiler struct{ *os.File }

func (s spoiler) Write(p []byte) (int, error) {
	_, err := s.File.Write(spoil(p))
	return len(p), err
}

// spoiling spoils the messages of a server at an address.
type spoiling struct{ http.ResponseWriter }

func (s spoiling) Write(p []byte) (int, error) {
	_, err := s.ResponseWriter.Write(spoil(p))
	return len(p), err
}

func (s spoiling) Unwrap() http.ResponseWriter { return s.ResponseWriter }

type (
	numbers struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	sum struct {
		Sum int `json:"sum"`
	}
	words struct {
		Text string `json:"text"`
	}
	content struct {
		Content string `json:"content"`
	}
)

func yes() *bool {
	v := true
	return &v
}

func no() *bool {
	v := false
	return &v
}

// newServer is a server with a tool of each kind.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Title: "Test server", Version: "2.1.0"}, &sdk.ServerOptions{Instructions: "Does this and that", SupportedProtocolVersions: revisions()})
	harmless := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(s, &sdk.Tool{Name: "add", Title: "Add numbers", Description: "Adds two numbers", Annotations: harmless}, func(_ context.Context, _ *sdk.CallToolRequest, in numbers) (*sdk.CallToolResult, sum, error) {
		return nil, sum{in.A + in.B}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "upper", Description: "Makes letters large", Annotations: harmless}, func(_ context.Context, r *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		return text(strings.ToUpper(in.Text)), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "read", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, content, error) {
		return text("a: \"b\"\nc"), content{"a: \"b\"\nc"}, nil // a text, wrapped as structured content has to be
	})
	sdk.AddTool(s, &sdk.Tool{Name: "trace", Annotations: harmless}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return text(fmt.Sprint(r.Params.Meta["traceparent"])), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("the disk is full")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "picture", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		png, _ := base64.StdEncoding.DecodeString("iVBORw0KGgo=")
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "two of them"}, &sdk.ImageContent{Data: png, MIMEType: "image/png"}, &sdk.ImageContent{Data: png, MIMEType: "image/png"},
			&sdk.ResourceLink{URI: "https://h/doc", Name: "doc", MIMEType: "text/html"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://x/notes.txt", MIMEType: "text/plain", Text: "notes"}},
		}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask-on", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		deaf.Store(true)
		for i := range 5000 {
			if _, err := fmt.Printf(`{"jsonrpc":"2.0","id":"own%d","method":"ping"}`+"\n", i); err != nil {
				return nil, nil, err
			}
		}
		return text("asked"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "long", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return text(strings.Repeat("x", 300<<10)), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "slow", Annotations: harmless}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "half of it"})
			_ = r.Session.Ping(ctx, nil) // by then it was heard, where there are pings
		}
		if err := note("begun"); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		if path := os.Getenv("CANCELED"); path != "" {
			_ = os.WriteFile(path, []byte("canceled"), 0o600)
		}
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "note", Description: "Adds a line to a file", Annotations: &sdk.ToolAnnotations{DestructiveHint: no()}}, func(_ context.Context, r *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		pause, _ := time.ParseDuration(os.Getenv("DAWDLE")) // so that it is killed at any point of it
		time.Sleep(pause)
		err := note(in.Text)
		time.Sleep(pause)
		return text("noted " + in.Text), nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "hold", Description: "Adds a line to a file, and works until nobody waits", Annotations: &sdk.ToolAnnotations{DestructiveHint: no()}}, func(ctx context.Context, r *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		b, _ := os.ReadFile(os.Getenv("NOTES"))
		err := note(in.Text)
		if !strings.Contains(string(b), in.Text) { // a repeated call is seen at once
			<-ctx.Done()
		}
		return nil, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die", Annotations: &sdk.ToolAnnotations{DestructiveHint: yes()}}, func(_ context.Context, r *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		if err := note(in.Text); err != nil {
			return nil, nil, err
		}
		os.Exit(3)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "huge", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return text(strings.Repeat("x", 20<<20)), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "flood", Annotations: harmless}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 5000 {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: strings.Repeat("z", 1000)})
		}
		return text("over"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "paid", Description: "Needs a visit first", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		if visits.Add(1) == 1 {
			return nil, nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{{Mode: "url", Message: "Please pay", URL: "https://pay.example/1", ElicitationID: "1"}})
		}
		return text("paid"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "nag", Description: "Asks for too much, without end", Annotations: harmless}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		fields := map[string]any{}
		for i := range 25 {
			fields[fmt.Sprint("field", i)] = map[string]any{"type": "string"}
		}
		for range 2000 {
			if _, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Mode: "form", Message: "Well?", RequestedSchema: map[string]any{"type": "object", "properties": fields}}); err != nil {
				return nil, nil, err
			}
		}
		return text("enough"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "deafen", Description: "Reads nothing more", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		deaf.Store(true)
		return text("what?"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "order", Description: "Orders a meal"}, order)
	sdk.AddTool(s, &sdk.Tool{Name: "grow", Annotations: harmless}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "grown"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return text("here"), nil, nil
		})
		return text("grew"), nil, nil
	})
	return s
}

// visits is how often the tool paid was called.
var visits atomic.Int32

// revisions are those that the server has; nil is all.
func revisions() []string {
	if only := os.Getenv("REVISION"); only != "" {
		return []string{only}
	}
	return nil
}

// order asks what to order; where it is run again with the answer, it says that.
func order(ctx context.Context, r *sdk.CallToolRequest, in struct {
	Table int `json:"table"`
},
) (*sdk.CallToolResult, any, error) {
	answer, ok := r.Params.InputResponses["meal"].(*sdk.ElicitResult)
	if !ok {
		return &sdk.CallToolResult{
			InputRequests: sdk.InputRequestMap{"meal": &sdk.ElicitParams{Mode: "form", Message: "What will it be?", RequestedSchema: map[string]any{
				"type": "object", "required": []string{"meal"},
				"properties": map[string]any{"meal": map[string]any{"type": "string", "enum": []string{"fish", "soup"}}, "hot": map[string]any{"type": "boolean", "default": true}},
			}}},
			RequestState: fmt.Sprintf("table %d", in.Table),
		}, nil, nil
	}
	if answer.Action != "accept" {
		return text("nothing: " + answer.Action), nil, nil
	}
	if err := note(fmt.Sprint(answer.Content["meal"])); err != nil {
		return nil, nil, err
	}
	return text(fmt.Sprintf("%v, hot %v, for %s", answer.Content["meal"], answer.Content["hot"], r.Params.RequestState)), nil, nil
}

// note adds a line to the file of the test.
func note(line string) error {
	path := os.Getenv("NOTES")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// until waits for something to be so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !so(); {
		if time.Now().After(end) {
			t.Errorf("%s: not within two minutes", what)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
