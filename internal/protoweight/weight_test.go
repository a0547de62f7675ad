package protoweight

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestHeavyIsNotReadToItsEnd has a message of many values refused: it is looked at as far as to the bound, since who sends such ones without a pause would take
// the processors from others. One below the bound is decoded.
func TestHeavyIsNotReadToItsEnd(t *testing.T) {
	const most = 64 << 10
	list := &structpb.ListValue{Values: make([]*structpb.Value, 100_000)}
	for i := range list.Values {
		list.Values[i] = &structpb.Value{}
	}
	nested := &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewListValue(list)}})}}
	for name, m := range map[string]proto.Message{"flat": list, "nested": nested} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		of := m.ProtoReflect().Descriptor()
		whole := OfMessage(m)
		if w := weigh(of, b, 0, most); w <= most || w > most+len(b)+10*messageWeight || w > whole/10 {
			t.Errorf("%s: it is weighed to %d of %d, want little more than %d", name, w, whole, most)
		}
		if w := weigh(of, b, 0, whole); w != whole {
			t.Errorf("%s: it weighs %d with a bound that it keeps, want %d", name, w, whole)
		}
		if err := NewCodec(whole-1, ErrHeavy).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, proto.Clone(m)); !errors.Is(err, ErrHeavy) {
			t.Errorf("%s: over the bound: %v", name, err)
		}
		if err := NewCodec(whole, ErrHeavy).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, proto.Clone(m)); err != nil {
			t.Errorf("%s: at the bound: %v", name, err)
		}
	}
}

// TestLargeTakeTurns checks that large messages are decoded few at a time, which keeps no small one waiting.
func TestLargeTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is, ok := NewCodec(1<<20, ErrHeavy).(*codec)
		if !ok {
			t.Fatal("it is another codec")
		}
		decode := func(n int) <-chan error {
			over := make(chan error, 1)
			b, err := proto.Marshal(structpb.NewStringValue(strings.Repeat("x", n)))
			if err != nil {
				t.Fatal(err)
			}
			go func() { over <- is.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &structpb.Value{}) }()
			return over
		}
		is.turns = make(chan struct{}, 2) // within the bubble
		for range cap(is.turns) {
			is.turns <- struct{}{}
		}
		waits := decode(2 * large)
		if err := <-decode(1); err != nil {
			t.Errorf("a small one: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-waits:
			t.Errorf("a large one is decoded beside %d others: %v", cap(is.turns), err)
			return
		default:
		}
		<-is.turns
		if err := <-waits; err != nil {
			t.Errorf("a large one: %v", err)
		}
	})
}
