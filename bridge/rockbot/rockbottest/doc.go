// Package rockbottest plays RockBot's programs on a real RabbitMQ, for tests: they declare, publish, acknowledge and read as the originals do, strictly, also
// where that is not wise. [Start] starts a RabbitMQ of a test's own.
package rockbottest
