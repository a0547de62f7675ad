package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Clients of A2A 0.3 name no version, or that one, and their methods have a slash, as in message/send. Their HTTP+JSON is below /v1. They get the same
// tasks as all others.

const oldVersion = string(a2av0.Version)

// isOld reports whether a version is that of a client of 0.3; a missing one is.
func isOld(version string) bool {
	return version == "" || version == oldVersion || strings.HasPrefix(version, oldVersion+".")
}

// oldHandlers are the handlers for clients of 0.3.
type oldHandlers struct{ rpc, rest http.Handler }

func (s *Server) oldHandlers(options []a2asrv.TransportOption) *oldHandlers {
	if !s.cfg.Old {
		return nil
	}
	h := s.requests(isOld)
	return &oldHandlers{a2av0.NewJSONRPCHandler(h, options...), a2av0.NewRESTHandler(h, options...)}
}

// pick returns the handler for a request, or nil if it is not of 0.3. A message of 1.0 without a version is given one.
func (o *oldHandlers) pick(r *http.Request, path string, body []byte) http.Handler {
	if o == nil || !isOld(strings.TrimSpace(r.Header.Get(a2a.SvcParamVersion))) {
		return nil
	}
	if path != "/" {
		if strings.HasPrefix(path, a2av0.RESTPathPrefix+"/") {
			return o.rest
		}
		return nil
	}
	var call struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &call) == nil && call.Method != "" && !strings.Contains(call.Method, "/") && r.Header.Get(a2a.SvcParamVersion) == "" {
		r.Header.Set(a2a.SvcParamVersion, string(a2a.Version))
		return nil
	}
	return o.rpc
}

// oldCard returns a card in the forms of 1.0 and of 0.3 at once.
func oldCard(ctx context.Context, card *a2a.AgentCard) ([]byte, error) {
	own := *card
	base := card.SupportedInterfaces[0].URL
	for _, binding := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON} {
		own.SupportedInterfaces = append(own.SupportedInterfaces, &a2a.AgentInterface{URL: base, ProtocolBinding: binding, ProtocolVersion: a2av0.Version})
	}
	both, ok := a2av0.NewStaticAgentCardProducer(&own).(a2asrv.AgentCardJSONProducer)
	if !ok {
		return json.Marshal(card)
	}
	b, err := both.CardJSON(ctx)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, b)
	return out.Bytes(), err
}

// oldBearer is bearer in both forms.
var oldBearer = []byte(`,"securitySchemes":{"bearer":{"type":"http","scheme":"Bearer","httpAuthSecurityScheme":{"scheme":"Bearer"}}},"security":[{"bearer":[]}],"securityRequirements":[{"schemes":{"bearer":{"list":[]}}}]}`)
