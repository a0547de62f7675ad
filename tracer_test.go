package main

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

// tracer is a program for scripts: a stranger's client, which knows NATS and nothing of this module's. It says the words of its third
// argument under the trace context of the first two, and prints that of all that it is shown until the answer.
func tracer() {
	if err := traceTurn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func traceTurn() error {
	if len(os.Args) != 4 {
		return errors.New("usage: tracer TRACEPARENT TRACESTATE WORDS")
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
	const id = "traced"
	shown, err := nc.SubscribeSync("cortex.v1.live._." + id + ".cortex")
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	words, err := json.Marshal(os.Args[3])
	if err != nil {
		return err
	}
	_, err = js.PublishMsg(ctx, &natsgo.Msg{
		Subject: "cortex.v1.inbox._.cortex." + strconv.Itoa(transport.Partition("", id)) + "." + id + ".user",
		Header: natsgo.Header{
			"Cortex-Id": {id}, "Cortex-Kind": {"message"}, "Cortex-Version": {"1"}, "Cortex-Time": {time.Now().Format(time.RFC3339Nano)},
			"traceparent": {os.Args[1]}, "tracestate": {os.Args[2]},
		},
		Data: []byte(`{"messageId":"` + id + `","role":"ROLE_USER","parts":[{"text":` + string(words) + `}]}`),
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
