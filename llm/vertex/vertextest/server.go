package vertextest

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// Server is a local server. It signs its text answers as Gemini 3 does, and rejects a signature that does not belong to its text.
type Server struct {
	Addr  string         // host:port of the gRPC server, or the URL of the REST server
	Roots *x509.CertPool // the trusted certificates of a server with TLS; otherwise nil

	handler llmtest.Handler
	signed  atomic.Int64
}

// imageTypes are the types that Gemini accepts.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

// Signed returns the number of signatures in the histories of calls.
func (s *Server) Signed() int { return int(s.signed.Load()) }

// signature returns the signature of a text.
func signature(text string) []byte {
	sum := sha256.Sum256([]byte("signed " + text))
	return sum[:]
}

// call decodes a request.
func (s *Server) call(r *pb.GenerateContentRequest, gone <-chan struct{}, authorization string) (*llmtest.Call, error) {
	c := &llmtest.Call{Model: path.Base(r.Model), Stream: true, Gone: gone}
	c.Key, _ = strings.CutPrefix(authorization, "Bearer ")
	for _, part := range r.SystemInstruction.GetParts() {
		c.System += part.GetText()
	}
	for i, content := range r.Contents {
		role := llm.RoleUser
		if content.Role == "model" {
			role = llm.RoleAssistant
		}
		if want := []string{"user", "model"}[i%2]; content.Role != want {
			return nil, fmt.Errorf("content %d has the role %q, want %q: roles take turns", i, content.Role, want)
		}
		for _, part := range content.Parts {
			if got := part.ThoughtSignature; len(got) > 0 {
				if string(got) != string(signature(part.GetText())) {
					return nil, fmt.Errorf("content %d has a signature that is not its own", i)
				}
				s.signed.Add(1)
			}
			if blob := part.GetInlineData(); blob != nil {
				if role != llm.RoleUser || len(blob.Data) == 0 || !slices.Contains(imageTypes, blob.MimeType) {
					return nil, fmt.Errorf("content %d has an image of the type %q that cannot be read", i, blob.MimeType)
				}
				image := llm.Part{Image: &llm.Image{Type: blob.MimeType, Data: blob.Data}}
				if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == role {
					c.Messages[n-1].Parts = append(c.Messages[n-1].Parts, image)
				} else {
					c.Messages = append(c.Messages, llm.Message{Role: role, Parts: []llm.Part{image}})
				}
				continue
			}
			if part.GetText() == "" {
				return nil, fmt.Errorf("content %d has an empty text parameter", i)
			}
			c.Messages = append(c.Messages, llm.Message{Role: role, Parts: []llm.Part{{Text: part.GetText()}}})
		}
	}
	if g := r.GenerationConfig; g != nil {
		c.MaxTokens = int(g.GetMaxOutputTokens())
		if g.Temperature != nil {
			t := float64(*g.Temperature)
			c.Temperature = &t
		}
		if g.ResponseMimeType == "application/json" {
			c.Mode = llm.StructuredObject
		}
		if g.ResponseSchema != nil {
			c.Mode, c.Schema = llm.StructuredSchema, []byte(protojson.Format(g.ResponseSchema))
		} else if g.ResponseJsonSchema != nil {
			c.Mode, c.Schema = llm.StructuredSchema, []byte(protojson.Format(g.ResponseJsonSchema))
		}
	}
	for _, tool := range r.Tools {
		for _, f := range tool.FunctionDeclarations {
			if mode := r.ToolConfig.GetFunctionCallingConfig().GetMode(); mode != pb.FunctionCallingConfig_ANY {
				return nil, fmt.Errorf("function %q is declared with the mode %s", f.Name, mode)
			}
			c.Mode = llm.StructuredTools
			if f.Parameters != nil {
				c.Schema = []byte(protojson.Format(f.Parameters))
			} else if f.ParametersJsonSchema != nil {
				c.Schema = []byte(protojson.Format(f.ParametersJsonSchema))
			}
		}
	}
	return c, nil
}

// certificate takes the certificate of the standard library's test server.
func (s *Server) certificate() *httptest.Server {
	donor := httptest.NewUnstartedServer(nil)
	donor.EnableHTTP2 = true
	donor.StartTLS()
	s.Roots = x509.NewCertPool()
	s.Roots.AddCert(donor.Certificate())
	return donor
}
