package llm

import "errors"

// What can go wrong with a model. Clients wrap these around the vendor's error.
var (
	ErrUnavailable     = errors.New("model unavailable") // down, overloaded, or not reached; trying again is right
	ErrRateLimited     = errors.New("rate limited")      // too many requests; trying again later is right
	ErrQuota           = errors.New("quota used up")     // trying again does not help
	ErrAuth            = errors.New("not authorized")    // wrong or missing key
	ErrBadRequest      = errors.New("request refused")   // the endpoint does not accept the request, or knows no such model
	ErrRefused         = errors.New("model refused")     // a safety filter or the model itself
	ErrTruncated       = errors.New("answer cut off")    // the stream or the token limit ended it early
	ErrInvalidDecision = errors.New("invalid decision")  // what the model wrote is no decision, also after repairs
)
