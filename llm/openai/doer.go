package openai

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// maxErrorBody bounds how much of an error's body is read, in bytes.
const maxErrorBody = 64 << 10

// doer sends the one request of a call. It adds to the body what the SDK does not send. It keeps the answer, which the SDK does not read, and gives
// the SDK each error as an [llm.Error], which it passes on.
type doer struct {
	http    *http.Client
	format  format
	headers map[string]string
	fill    func(body []byte) ([]byte, error) // completes the body; nil: it is complete
	keyless bool
	secrets func() []string // which errors must not show
	answer  *repair         // set by a successful Do
}

var _ openai.HTTPDoer = (*doer)(nil)

func (d *doer) Do(req *http.Request) (*http.Response, error) {
	if err := d.complete(req); err != nil {
		return nil, err
	}
	if d.keyless {
		req.Header.Del(openai.AzureAPIKeyHeader) // the SDK sends it empty
	}
	for name, value := range d.headers {
		req.Header.Set(name, value)
	}
	target := req.URL.Scheme + "://" + req.URL.Host + req.URL.Path
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, endpoint.NetworkError(err, req.URL)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		body := newRepair(long.Body(req.Context(), resp.Body), d.format, resp.Header, target)
		body.secrets = d.secrets()
		resp.Body, d.answer = body, body
		return resp, nil
	}
	defer resp.Body.Close()                                        //nolint:errcheck // it was only read
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a partial body is sufficient
	var e *llm.Error
	if resp.StatusCode < 400 {
		e = &llm.Error{Kind: llm.ErrBadRequest, Status: resp.StatusCode, Message: fmt.Sprintf(
			"%s sends elsewhere, to %s, and that is not followed: set base_url to where the endpoint is", target, resp.Header.Get("Location"))}
	} else {
		e = errorOf(resp.StatusCode, hide(body, d.secrets()), target)
	}
	return nil, withHeader(e, resp.Header)
}

// complete completes the body.
func (d *doer) complete(req *http.Request) error {
	if d.fill == nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		body, err = d.fill(body)
	}
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, err = req.GetBody()
	return err
}
