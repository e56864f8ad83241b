package webhooks

// Public says whether an address is an ordinary one of the internet.
var Public = public
