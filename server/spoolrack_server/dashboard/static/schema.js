// The settings of a queue. Written by scripts/generate-settings from the store's schema.

export const SETTINGS = [
  {"name": "visibility_timeout", "title": "Visibility timeout", "kind": "span", "zero": "", "choices": []},
  {"name": "delivery_delay", "title": "Delivery delay", "kind": "span", "zero": "none", "choices": []},
  {"name": "max_receives", "title": "Max receives", "kind": "count", "zero": "never", "choices": []},
  {"name": "dead_letter_queue", "title": "Dead-letter queue", "kind": "queue", "zero": "none", "choices": []},
  {"name": "dead_letter_at", "title": "Dead-letter at", "kind": "choice", "zero": "", "choices": ["lease_end", "receive"]},
  {"name": "retention", "title": "Retention", "kind": "span", "zero": "no limit", "choices": []},
  {"name": "max_messages", "title": "Max messages", "kind": "count", "zero": "no limit", "choices": []},
  {"name": "max_bytes", "title": "Max bytes", "kind": "size", "zero": "no limit", "choices": []},
  {"name": "max_message_size", "title": "Max message size", "kind": "size", "zero": "", "choices": []},
  {"name": "lease_durability", "title": "Lease durability", "kind": "choice", "zero": "", "choices": ["strict", "relaxed"]},
  {"name": "deduplication_window", "title": "Deduplication window", "kind": "span", "zero": "", "choices": []},
  {"name": "messages_per_file", "title": "Messages per file", "kind": "count", "zero": "up to 1,000", "choices": []},
  {"name": "group_order", "title": "Group order", "kind": "choice", "zero": "", "choices": ["fair", "strict"]},
  {"name": "archive_retention", "title": "Archive retention", "kind": "span", "zero": "no archive", "choices": []},
  {"name": "sending", "title": "Sending", "kind": "choice", "zero": "", "choices": ["open", "paused"]},
  {"name": "receiving", "title": "Receiving", "kind": "choice", "zero": "", "choices": ["open", "paused"]},
];
