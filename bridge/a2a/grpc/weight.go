package grpc

import (
	"errors"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxHeavy bounds what a decoded message takes in memory, approximately, in bytes: one of small values takes fifty times its length.
const maxHeavy = 16 << 20

// Estimates, in bytes.
const (
	messageWeight = 128 // a message without fields
	entryWeight   = 64  // an entry of a map, beside its message
	fieldWeight   = 24
)

// maxDepth is as deep as protobuf decodes.
const maxDepth = 10_000

// weighing is the codec of the server: it refuses messages that would take too much memory, before it decodes them, and counts answers that are not
// written.
type weighing struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return weighing{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c weighing) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if weigh(m.ProtoReflect().Descriptor(), b.ReadOnlyData(), 0) > maxHeavy {
		return errors.New("the message has too many values: send them as a file")
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{b}, v)
}

// weightOf estimates how much memory a decoded message takes, in bytes.
func weightOf(m proto.Message) int {
	b, err := proto.Marshal(m)
	if err != nil {
		return maxHeavy // it was decoded, and so can be encoded
	}
	return weigh(m.ProtoReflect().Descriptor(), b, 0)
}

// weigh estimates how much memory a message takes when it is decoded, in bytes. b may be invalid.
func weigh(of protoreflect.MessageDescriptor, b []byte, depth int) int {
	w := messageWeight + len(b)
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break // which decoding says
		}
		b = b[n:]
		if w += fieldWeight; kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
				break
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			break
		}
		b = b[n:]
		f := of.Fields().ByNumber(num)
		if f == nil || f.Message() == nil || depth == maxDepth {
			continue
		}
		if f.IsMap() {
			w += entryWeight
		}
		w += weigh(f.Message(), value, depth+1) - len(value)
	}
	return w
}
