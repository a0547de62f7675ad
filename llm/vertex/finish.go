package vertex

import pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"

// newer are the finish reasons that were added to the protocol after the SDK was frozen.
var newer = map[pb.Candidate_FinishReason]string{
	10: "MODEL_ARMOR",
	11: "IMAGE_SAFETY",
	12: "IMAGE_PROHIBITED_CONTENT",
	13: "IMAGE_RECITATION",
	14: "IMAGE_OTHER",
	15: "UNEXPECTED_TOOL_CALL",
	16: "NO_IMAGE",
}

// nameOf returns the protocol's name for a reason; its number, if it is unknown.
func nameOf(reason pb.Candidate_FinishReason) string {
	if name, ok := newer[reason]; ok {
		return name
	}
	return reason.String()
}
