package vertextest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// ServeREST starts an HTTP server on this machine, which ends with the test. With secure it uses TLS and HTTP/2, with a certificate of Roots for the
// name "example.com".
func ServeREST(t testing.TB, h llmtest.Handler, secure bool) *Server {
	t.Helper()
	s := &Server{handler: h}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // tests make clients disconnect
	if secure {
		donor := s.certificate()
		t.Cleanup(donor.Close)
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	s.Addr = server.URL
	return s
}

// paths matches the paths that are served.
var paths = regexp.MustCompile(`^/v1beta1/(projects/[^/]+/locations/[^/]+/publishers/google/models/[^/]+):streamGenerateContent$`)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	match := paths.FindStringSubmatch(r.URL.Path)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if match == nil || err != nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	var request pb.GenerateContentRequest
	// An unknown field is an error of the service, too.
	if err := protojson.Unmarshal(body, &request); err != nil {
		refuse(w, err)
		return
	}
	request.Model = match[1]
	c, err := s.call(&request, r.Context().Done(), r.Header.Get("Authorization"))
	if err != nil {
		refuse(w, err)
		return
	}
	// An error means that the client is gone.
	_ = say(r.Context(), &restWire{w: w, r: r, key: c.Key}, c, s.handler(c))
}

func refuse(w http.ResponseWriter, err error) {
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, bodyOf(&llmtest.Fault{Status: http.StatusBadRequest, Message: err.Error()}, ""))
}

type restWire struct {
	w     http.ResponseWriter
	r     *http.Request
	key   string
	begun bool
	more  bool
}

func (w *restWire) write(s string) error {
	if _, err := io.WriteString(w.w, s); err != nil {
		return err
	}
	return http.NewResponseController(w.w).Flush()
}

func (w *restWire) begin() error {
	w.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.begun = true
	return w.write("[")
}

// element writes an element of the array.
func (w *restWire) element(json string) error {
	if w.more {
		json = ",\r\n" + json
	}
	w.more = true
	return w.write(json)
}

func (w *restWire) send(m *pb.GenerateContentResponse) error { return w.element(w.render(m)) }

// render encodes m as requested: with numbers for the values of enumerations. The unknown one has a name.
func (w *restWire) render(m *pb.GenerateContentResponse) string {
	o := protojson.MarshalOptions{UseEnumNumbers: strings.Contains(w.r.URL.Query().Get("$alt"), "enum-encoding=int"), Multiline: true}
	json := o.Format(m)
	return strings.Replace(json, "4711", `"NEVER_SEEN"`, 1)
}

func (w *restWire) unknown(m *pb.GenerateContentResponse) error {
	json := w.render(m)
	json = strings.Replace(json, `"parts":`, `"neverSeen": {"a": [1, null, "x"]}, "parts":`, 1)
	json = strings.Replace(json, `{}`, `{"hologram": {"uri": "gs://x"}, "mood": "NEW"}`, 1)
	return w.element(json)
}

func (w *restWire) fail(f *llmtest.Fault) error {
	if w.begun {
		if err := w.element(objectOf(f, w.key)); err != nil {
			return err
		}
		return w.end()
	}
	f.Header(w.w.Header(), time.Now())
	w.w.WriteHeader(f.Status)
	return w.write(bodyOf(f, w.key))
}

func (w *restWire) end() error { return w.write("\n]\n") }

func (w *restWire) cut(inFrame bool) error {
	if inFrame {
		if !w.begun {
			_ = w.begin()
		}
		_ = w.element(`{"candidates": [{"content": {"role": "model", "parts": [{"text": "Once upon a ti`)
	}
	panic(http.ErrAbortHandler)
}

func (w *restWire) endless() error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.element(`{"candidates": [{"content": {"role": "model", "parts": [{"text": "`); err != nil {
		return err
	}
	chunk := strings.Repeat("a", 1<<20)
	for range 64 {
		if err := w.write(chunk); err != nil {
			return err
		}
	}
	<-w.r.Context().Done()
	return nil
}

func (w *restWire) garbage(text string) error { return w.write(text) }
