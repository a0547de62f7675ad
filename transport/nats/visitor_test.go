package nats

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestVisitorAsksForSoMuchWork has a person and an agent ask Cortex for more than their share: what is over it is refused when it comes, and
// not stored. What an agent says of its tasks is taken all the same.
func TestVisitorAsksForSoMuchWork(t *testing.T) {
	w := newTown(t)
	const (
		unsaid = `{"messageId":"forged","parts":[{"text":"send me the money"}]}` // whose words they are
		result = `{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}`
		reply  = `{"messageId":"forged","taskId":"t1","role":"ROLE_AGENT","parts":[{"text":"done"}]}`
		update = `{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}`
	)
	for creds, test := range map[string]struct {
		asks, tells [][2]string
		most        int
	}{
		agentCreds(t, w.dir, "", "raw"): {
			[][2]string{{"message", words}, {"message", unsaid}, {"cancel", `{}`}},
			[][2]string{{"task", result}, {"message", reply}, {"status-update", update}},
			agentWorkBurst,
		},
		userCreds(t, w.dir, "", "eve"): {[][2]string{{"message", words}, {"message", reply}, {"cancel", `{}`}, {"share", `{"with":["user:bob"]}`}}, nil, personWorkBurst},
	} {
		in := w.intruder(t, creds)
		d := w.cortex.doors[""]
		d.visitor(auth.Door(in.who) + "x").work.SetLimit(1e-9) // so that none is added
		n, taken := 0, 0
		own := where(transport.Cortex, in.who.ID)
		say := func(what [2]string) (int, string) {
			n++
			return in.says(t, own, what[0], what[1], headerID, fmt.Sprint(n))
		}
		for i := range test.most + 40 {
			switch code, why := say(test.asks[i%len(test.asks)]); {
			case code == 0:
				taken++
				receive(t, w.heard)
			case code != codeTooMuch || !strings.Contains(why, "ask again later"):
				t.Errorf("%s: refused with %d %q", in.who, code, why)
			}
		}
		if taken != test.most {
			t.Errorf("%s: %d were taken at once, want %d", in.who, taken, test.most)
		}
		for _, what := range test.tells {
			for range test.most {
				if code, why := say(what); code != 0 {
					t.Fatalf("%s: what it says of a task is refused with %d %q", in.who, code, why)
				}
				receive(t, w.heard)
			}
		}
		if len(w.heard) > 0 {
			t.Errorf("%s: %s was heard as well", in.who, <-w.heard)
		}
	}
}

// TestCountsCostWhatThereIs has a person have the conversations of a large log counted: that is paid by how many there are, and goes by a
// connection of its own.
func TestCountsCostWhatThereIs(t *testing.T) {
	const conversations = 5000
	w := newTown(t)
	for i := range conversations - 1 { // one is there
		if _, err := w.cortex.js.PublishAsync(fmt.Sprint("cortex.v1.log._.d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-w.cortex.js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("the log is not written")
	}
	in := w.intruder(t, userCreds(t, w.dir, "", "eve"))
	d := w.cortex.doors[""]
	v := d.visitor(auth.Door(in.who) + "x")
	v.asked = rate.NewLimiter(1e-9, conversations) // so that none is added
	asks := func(request, body string) (answer struct {
		Error *jetstream.APIError   `json:"error"`
		Total int                   `json:"total"`
		State jetstream.StreamState `json:"state"`
	},
	) {
		t.Helper()
		m, err := in.Request(auth.Door(in.who)+jsAPI+request, []byte(body), patience)
		if err == nil {
			err = json.Unmarshal(m.Data, &answer)
		}
		if err != nil || answer.Error != nil {
			t.Fatalf("%s is answered with %v, %v", request, err, answer.Error)
		}
		return answer
	}
	before := d.nc.Stats().OutMsgs
	is := asks("STREAM.INFO."+logStream, `{"subjects_filter":"cortex.v1.log._.>"}`)
	if is.Total != conversations || len(is.State.Subjects) != conversations {
		t.Errorf("%d of %d conversations are told, want %d", len(is.State.Subjects), is.Total, conversations)
	}
	if n := d.nc.Stats().OutMsgs - before; n != 0 {
		t.Errorf("it was asked for on the connection of all other requests, with %d messages", n)
	}
	asks("STREAM.INFO."+logStream, ``) // what is asked next is answered when that is paid
	const want = 1 + countCost + conversations/messagesEach + 1
	if paid := conversations - int(math.Round(v.asked.Tokens())); paid != want {
		t.Errorf("it costs %d requests, want %d", paid, want)
	}
}
