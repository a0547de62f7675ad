package rockbot

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// TestTopology has RockBot declare all of its queues anew, as its first generation does, where Cortex was before: RabbitMQ refuses none.
func TestTopology(t *testing.T) {
	w := newWorld(t)
	file := []*card{{AgentName: w.name("Pinned")}}
	w.o.pinned = file
	p := w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	w.Knows(w.name("Pinned"))
	if _, err := p.Knows(w.soon(), w.o.name, true); err != nil {
		t.Fatal(err)
	}
	turn := w.Send(w.name("Pinned"), "", "go", "") // its queue is made for it
	ch := w.channel()
	w.Until("there is a queue", func() bool {
		_, err := ch.QueueDeclarePassive(taskQueue(w.name("Pinned")), true, false, false, false, nil)
		if err != nil {
			ch = w.channel()
		}
		return err == nil
	})
	for _, name := range []string{w.o.name, w.name("Pinned")} {
		for subscription, topic := range map[string]string{
			name + ".agent-task-" + name: "agent.task." + name, name + ".agent-task-cancel-" + name: "agent.task.cancel." + name,
			name + ".agent-response-" + name: "agent.response." + name, name + ".agent-task-status": "agent.task.status", name + ".discovery": "discovery.announce",
		} {
			if err := rockbottest.Declare(w.channel(), subscription, topic); err != nil {
				t.Errorf("%s: %v", subscription, err)
			}
		}
	}
	w.program(&rockbottest.Program{Name: "Pinned"})
	if said := w.Answer(turn); said != "go" {
		t.Errorf("the answer is %q", said)
	}
}

// TestForeignQueue finds queues of RockBot's names that are there with other arguments: they are left as they are, and used.
func TestForeignQueue(t *testing.T) {
	w := newWorld(t)
	ch := w.channel()
	for _, name := range []string{w.o.name, w.name("Pinned")} {
		if _, err := ch.QueueDeclare(taskQueue(name), true, false, false, false, amqp.Table{"x-max-length": int64(7)}); err != nil {
			t.Fatal(err)
		}
	}
	w.o.pinned = []*card{{AgentName: w.name("Pinned")}}
	p := w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	w.Knows(w.name("Pinned"))
	if _, err := p.Knows(w.soon(), w.o.name, true); err != nil {
		t.Fatal(err)
	}
	if m := w.response(p, p.Invoke(w.o.name, "ask", "hello"), 1); m.Text() != "Cortex has heard it" {
		t.Errorf("the answer is %v", m.Body)
	}
	w.Send(w.name("Pinned"), "", "go", "")
	w.Until("the task is there", func() bool {
		q, err := ch.QueueDeclarePassive(taskQueue(w.name("Pinned")), true, false, false, false, nil)
		return err == nil && q.Messages == 1
	})
	if contains(w.Log.String(), "PRECONDITION") {
		t.Error(w.Log.String())
	}
}

// proxy is a way to RabbitMQ that can be cut.
type proxy struct {
	l  net.Listener
	mu sync.Mutex
	// conns are nil while it is cut.
	conns   map[net.Conn]bool
	refused int // connections while it was cut
	last    net.Conn
	// said are frames that are given to the last connection as if RabbitMQ had sent them; nil: all bytes are passed on as they come.
	said chan []byte
	hold sync.Mutex // nothing is passed on while somebody else has it
	deaf sync.Mutex // nothing is taken from the last connection while somebody else has it
}

func newProxy(t *testing.T, to string, said chan []byte) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{l: l, conns: map[net.Conn]bool{}, said: said}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			p.mu.Lock()
			if err != nil || p.conns == nil {
				in.Close()
				p.refused++
				p.mu.Unlock()
				continue
			}
			p.conns[in], p.conns[out], p.last = true, true, in
			p.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				passing.Go(func() {
					if p.said != nil && pair[0] == in {
						p.frames(in, out)
					}
					_, _ = io.Copy(&held{p, pair[0], pair[1]}, pair[1])
					pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		passing.Wait()
	})
	return p
}

// held is a way that can be frozen.
type held struct {
	p    *proxy
	to   io.Writer
	from net.Conn
}

func (h *held) Write(b []byte) (int, error) {
	h.p.hold.Lock()
	//lint:ignore SA2001 it waits until nobody has it
	h.p.hold.Unlock()
	if h.p.isLast(h.from) {
		h.p.deaf.Lock()
		//lint:ignore SA2001 likewise
		h.p.deaf.Unlock()
	}
	return h.to.Write(b)
}

func (p *proxy) isLast(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last == c
}

// finish has clients read the end of what RabbitMQ says, and take nothing from them.
func (p *proxy) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c, ok := c.(*net.TCPConn); ok && c.LocalAddr().String() == p.l.Addr().String() {
			_ = c.CloseWrite()
		}
	}
}

// frames passes the frames of RabbitMQ on, and what is said between them.
func (p *proxy) frames(to, from net.Conn) {
	read := make(chan []byte)
	defer func() {
		for range read { //nolint:revive // until the connection has ended
		}
	}()
	go func() {
		defer close(read)
		for {
			head := make([]byte, 7)
			if _, err := io.ReadFull(from, head); err != nil {
				return
			}
			frame := append(head, make([]byte, binary.BigEndian.Uint32(head[3:])+1)...)
			if _, err := io.ReadFull(from, frame[7:]); err != nil {
				return
			}
			read <- frame
		}
	}()
	for {
		var frame []byte
		ok, said := true, p.said
		if !p.isLast(to) {
			said = nil
		}
		select {
		case frame, ok = <-read:
		case frame = <-said:
		}
		if !ok {
			return
		}
		if _, err := to.Write(frame); err != nil {
			from.Close()
			return
		}
	}
}

// method returns a frame of a method of the class connection.
func method(id byte, arguments string) []byte {
	body := "\x00\x0a\x00" + string(id) + arguments
	return []byte("\x01\x00\x00\x00\x00\x00" + string(rune(len(body))) + body + "\xce")
}

// TestBlocked has RabbitMQ take no messages for a while, as when it lacks memory: that is said, and a task that waits is done then. It reads nothing meanwhile from
// a connection that publishes, and is told all the same what becomes of what it has given: that is what takes its memory.
func TestBlocked(t *testing.T) {
	w := newWorld(t)
	at := strings.TrimSuffix(strings.TrimPrefix(w.o.url, "amqp://guest:guest@"), "/")
	p := newProxy(t, at, make(chan []byte))
	w.o.url = strings.Replace(w.o.url, at, p.l.Addr().String(), 1)
	w.serve()
	agent := w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}})
	p.said <- method(60, "\x0alow on ram")
	p.deaf.Lock()
	hear := sync.OnceFunc(p.deaf.Unlock)
	defer hear()
	w.Until("it is told", func() bool {
		return w.Waits() != nil && contains(w.Waits().Error(), "takes no messages now: low on ram")
	})
	w.Until("it is logged", func() bool { return contains(w.Log.String(), "takes no messages now") })
	turn := w.Send(agent.Name, "echo", "ping", "")
	w.Until("the task is noted", func() bool {
		for n, err := range w.Store.Notes(t.Context(), "", storage.NoteSent) {
			if s := (sent{}); err == nil && json.Unmarshal(n.Value, &s) == nil && s.Context == turn.ContextID {
				return !s.Confirmed
			}
		}
		return false
	})
	ch := w.channel()
	must(t, ch.PublishWithContext(t.Context(), exchange, taskTopic+w.o.name, false, false, amqp.Publishing{Type: typeRequest, Body: []byte("none")}))
	w.Until("it is told that a message is refused", func() bool {
		q, err := ch.QueueDeclarePassive("cortex."+w.o.name+".dlq", true, false, false, false, nil)
		return err == nil && q.Messages == 1
	})
	hear()
	p.said <- method(61, "")
	if said := w.Answer(turn); said != "ping" {
		t.Errorf("the answer is %q", said)
	}
	if why := w.Waits(); why != nil {
		t.Errorf("it works, and tells that it waits: %v", why)
	}
}

// cut ends all connections, and lets none in until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = map[net.Conn]bool{}
}

// TestAway cuts Cortex off from RabbitMQ while tasks are given: that is said once, and nothing is lost.
func TestAway(t *testing.T) {
	w := newWorld(t)
	at := strings.TrimSuffix(strings.TrimPrefix(w.o.url, "amqp://guest:guest@"), "/")
	p := newProxy(t, at, nil)
	w.o.url = strings.Replace(w.o.url, at, p.l.Addr().String(), 1)
	caller := w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	begun, end := make(chan struct{}, 1), make(chan struct{})
	w.agent(&rockbottest.Program{Name: "Slow", Skills: []string{"work"}, Do: func(k *rockbottest.Work) {
		if k.Text() == "one" {
			begun <- struct{}{}
			select {
			case <-end:
			case <-t.Context().Done():
			}
		}
		k.Result(rockbottest.Completed, "done: "+k.Text())
	}})
	if _, err := caller.Knows(w.soon(), w.o.name, true); err != nil {
		t.Fatal(err)
	}
	one := w.Send(w.name("Slow"), "work", "one", "")
	<-begun
	p.cut()
	w.Until("it is said", func() bool { return contains(w.Log.String(), "no connection to RabbitMQ") })
	two := w.Send(w.name("Slow"), "work", "two", "")
	task := caller.Invoke(w.o.name, "ask", "hello")
	close(end)
	w.Until("it was tried again", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refused >= 4
	})
	if n := strings.Count(w.Log.String(), "no connection to RabbitMQ"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	if why := w.Waits(); why == nil || !contains(why.Error(), "no connection to RabbitMQ") {
		t.Errorf("it tells that it waits for %v, want RabbitMQ", why)
	}
	p.mend()
	for turn, want := range map[string]string{w.Answer(one): "done: one", w.Answer(two): "done: two"} {
		if turn != want {
			t.Errorf("the answer is %q, want %q", turn, want)
		}
	}
	if m := w.response(caller, task, 1); m.Text() != "Cortex has heard it" {
		t.Errorf("the answer is %v", m.Body)
	}
	if why := w.Waits(); why != nil {
		t.Errorf("it works, and tells that it waits: %v", why)
	}
}

// TestFrozen has RabbitMQ read nothing any more while much is written to it, and its connection end: that is noticed, and nothing is lost.
func TestFrozen(t *testing.T) {
	w := newWorld(t)
	at := strings.TrimSuffix(strings.TrimPrefix(w.o.url, "amqp://guest:guest@"), "/")
	p := newProxy(t, at, nil)
	w.o.url = strings.Replace(w.o.url, at, p.l.Addr().String(), 1)
	w.serve()
	agent := w.agent(&rockbottest.Program{Name: "Count", Skills: []string{"count"}, Do: func(k *rockbottest.Work) {
		k.Result(rockbottest.Completed, fmt.Sprint(len(k.Text())))
	}})
	p.hold.Lock()
	mend := sync.OnceFunc(p.hold.Unlock)
	defer mend()
	var turns []client.Turn
	const size = 700_000
	for range 24 { // more than fits in between
		turns = append(turns, w.Send(agent.Name, "count", strings.Repeat("x", size), ""))
	}
	w.Until("the tasks are noted", func() bool {
		noted := map[string]bool{}
		for n, err := range w.Store.Notes(t.Context(), "", storage.NoteSent) {
			if s := (sent{}); err == nil && json.Unmarshal(n.Value, &s) == nil {
				noted[s.Context] = true
			}
		}
		return !slices.ContainsFunc(turns, func(turn client.Turn) bool { return !noted[turn.ContextID] })
	})
	p.finish()
	w.Until("it is noticed", func() bool { return contains(w.Log.String(), "no connection to RabbitMQ") })
	mend()
	for _, turn := range turns {
		if said := w.Answer(turn); said != fmt.Sprint(size) {
			t.Errorf("the answer is %q", said)
		}
	}
}

// TestLostIsNotRefused has the connection end while messages are not confirmed: they are to be sent again, and are none that RabbitMQ has refused, which are given
// up after some times.
func TestLostIsNotRefused(t *testing.T) {
	w := newWorld(t)
	at := strings.TrimSuffix(strings.TrimPrefix(w.o.url, "amqp://guest:guest@"), "/")
	p := newProxy(t, at, nil)
	s, err := dial(t.Context(), strings.Replace(w.o.url, at, p.l.Addr().String(), 1))
	must(t, err)
	defer s.close()
	must(t, s.open())
	p.hold.Lock()
	release := sync.OnceFunc(p.hold.Unlock)
	defer release()
	const n = 20
	failed := make(chan error, n)
	for range n {
		go func() { failed <- s.publish(t.Context(), &letter{topic: "nobody", kind: typeStatus, body: 1}) }()
	}
	w.Until("all are on their way", func() bool { return s.pub.GetNextPublishSeqNo() == n+1 })
	p.finish()
	for range n {
		if err := <-failed; !errors.Is(err, errLost) {
			t.Errorf("a message that is not confirmed: %v", err)
		}
	}
}

// TestSecrets checks that no log has a password, whatever goes wrong.
func TestSecrets(t *testing.T) {
	for _, address := range []string{
		strings.Replace(rabbitURL(t), "guest:guest", "guest:s3cr%2Ft%40", 1), "amqp://nobody:s3cr%2Ft%40@127.0.0.1:1/", "amqps://nobody:s3cr%2Ft%40@no-such-host.invalid/?cacertfile=/s3cr/t",
		"amqps://guest:s3cr%2Ft%40@" + strings.TrimPrefix(rabbitURL(t), "amqp://guest:guest@"),
	} {
		w := newWorld(t)
		w.o.url = address
		w.start()
		w.Until("it is said", func() bool { return contains(w.Log.String(), "no connection to RabbitMQ") })
		w.stop()
		if log := w.Log.String(); contains(log, "s3cr%|s3cr/t@") || contains(log, "s3cr") && !strings.Contains(address, "cacertfile") {
			t.Errorf("with %s, the log is\n%s", address, log)
		}
	}
	o := &options{}
	for _, text := range []string{"amqp://u:s3cr t@h/", "amqp://u:s3cr/t@h/%zz", "http://u:s3cr@h", "amqp://u:s3cr#@h:x/"} {
		if err := o.setURL(text); err == nil || contains(err.Error(), "s3cr") {
			t.Errorf("setURL(%s): %v", text, err)
		}
	}
}

func rabbitURL(t *testing.T) string {
	newWorld(t) // it says so if there is none
	return rabbit.URL()
}

// TestOtherQueue has a queue of Cortex's name that is not as Cortex makes it. It is said which one, also when RabbitMQ was away before, and how to mend it.
func TestOtherQueue(t *testing.T) {
	w := newWorld(t)
	at := strings.TrimSuffix(strings.TrimPrefix(w.o.url, "amqp://guest:guest@"), "/")
	p := newProxy(t, at, nil)
	w.o.url = strings.Replace(w.o.url, at, p.l.Addr().String(), 1)
	ch := w.channel()
	name := "cortex." + w.o.name + ".response"
	_, err := ch.QueueDeclare(name, true, false, false, false, nil)
	must(t, err)
	p.cut()
	w.start()
	w.Until("it is said that RabbitMQ is away", func() bool { return contains(w.Log.String(), "no connection to RabbitMQ") })
	p.mend()
	w.Until("it is said what to do", func() bool { return contains(w.Log.String(), "rabbitmqctl delete_queue "+name) })
	_, err = ch.QueueDelete(name, false, false, false)
	must(t, err)
	w.Until("it is connected", func() bool { return w.connections() > 0 })
	if n := strings.Count(w.Log.String(), "no connection to RabbitMQ"); n != 2 {
		t.Errorf("it is said %d times:\n%s", n, w.Log.String())
	}
}
