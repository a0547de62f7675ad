package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlined is the writer of an answer that notes until when it may be written.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (*deadlined) SetReadDeadline(time.Time) error { return nil }

func (d *deadlined) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

// TestReadTakesNoTimeFromOthers has somebody read a resource, which has less time than a call: the calls after it have theirs.
func TestReadTakesNoTimeFromOthers(t *testing.T) {
	const long = 100 * readTime
	h := new(Server).mark(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), long)
	until := func(method string) time.Time {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)))
		return w.until
	}
	began := time.Now()
	before := until("tools/call")
	if read := until(methodRead); !read.Before(before) {
		t.Errorf("a resource may be read until %v, a call before it made until %v", read, before)
	}
	if after := until("tools/call"); after.Before(began.Add(long)) {
		t.Errorf("a call that begins after %v may last until %v, want %v more", began, after, long)
	}
}
