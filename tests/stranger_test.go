package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// stranger is a program for scripts: a client that knows NATS, and from this module only the number of a partition. It sends the text of its third
// argument with the trace context of the first two, and with the files of the other arguments. It prints the trace context of all events until the
// answer, and the answer.
func stranger() {
	if err := sayStrangely(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sayStrangely() error {
	if len(os.Args) < 4 {
		return errors.New("usage: stranger TRACEPARENT TRACESTATE WORDS [FILES...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".local", "state", "cortex", "server.json"))
	if err != nil {
		return err
	}
	var server struct{ URL string }
	if err := json.Unmarshal(b, &server); err != nil {
		return err
	}
	nc, err := natsgo.Connect(server.URL)
	if err != nil {
		return err
	}
	defer nc.Close()
	const conversation = "strange"
	shown, err := nc.SubscribeSync("cortex.v1.live._." + conversation + ".cortex")
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	parts := []any{map[string]any{"text": os.Args[3]}}
	for _, name := range os.Args[4:] {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		parts = append(parts, map[string]any{"raw": b, "filename": name})
	}
	id := natsgo.NewInbox()
	body, err := json.Marshal(map[string]any{"messageId": id, "role": "ROLE_USER", "parts": parts})
	if err != nil {
		return err
	}
	_, err = js.PublishMsg(ctx, &natsgo.Msg{
		Subject: "cortex.v1.inbox._.cortex." + strconv.Itoa(transport.Partition("", conversation)) + "." + conversation + ".user",
		Header: natsgo.Header{
			"Cortex-Id": {id}, "Cortex-Kind": {"message"}, "Cortex-Version": {"1"}, "Cortex-Time": {time.Now().Format(time.RFC3339Nano)},
			"traceparent": {os.Args[1]}, "tracestate": {os.Args[2]},
		},
		Data: body,
	})
	if err != nil {
		return err
	}
	for {
		m, err := shown.NextMsgWithContext(ctx)
		if err != nil {
			return err
		}
		kind := m.Header.Get("Cortex-Kind")
		fmt.Println(kind, m.Header.Get("traceparent"), m.Header.Get("tracestate"))
		if kind == "message" {
			fmt.Println(string(m.Data))
			return nil
		}
	}
}
