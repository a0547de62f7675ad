package grpc_test

import (
	"strconv"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestManyValues sends messages of many small values, which take far more memory than bytes. They are refused before they are decoded; large ones
// of few values are not.
func TestManyValues(t *testing.T) {
	c := pb.NewA2AServiceClient(dial(t, serve(t, 10)))
	list := &structpb.ListValue{}
	fields := map[string]*structpb.Value{}
	for range 200_000 {
		list.Values = append(list.Values, &structpb.Value{})
	}
	many := &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)}}
	for i := range 90_000 {
		fields[strconv.Itoa(i)] = &structpb.Value{}
	}
	deep := &structpb.Value{}
	for range 4000 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	for name, test := range map[string]struct {
		metadata *structpb.Struct
		text     string
		heavy    bool
	}{
		"a list":             {many, "", true},
		"an object":          {&structpb.Struct{Fields: fields}, "", true},
		"a long text":        {nil, strings.Repeat("x", 3<<20), false},
		"few values, nested": {&structpb.Struct{Fields: map[string]*structpb.Value{"a": deep}}, "", false},
	} {
		m := &pb.Message{MessageId: "1", Role: pb.Role_ROLE_USER, Metadata: test.metadata, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: test.text}}}}
		_, err := c.SendMessage(as(t, "good"), &pb.SendMessageRequest{Message: m})
		if refused := strings.Contains(status.Convert(err).Message(), "too many values"); refused != test.heavy || refused && status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}
