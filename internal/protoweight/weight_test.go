package protoweight

import (
	"errors"
	"testing"

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
