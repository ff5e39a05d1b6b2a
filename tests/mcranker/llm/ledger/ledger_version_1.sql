PRAGMA application_id = 1296257612 ;
PRAGMA user_version = 1 ;
PRAGMA auto_vacuum = 2 ;
BEGIN TRANSACTION;
CREATE TABLE replies (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    model TEXT NOT NULL,
    stage TEXT NOT NULL,
    created INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    reply TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    unusable INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "replies" VALUES(1,X'DF186E369CA02A7ADF344E8F74AE82576D1D80C7969C5E445CD599BEC4207EA5','openai:gpt-5-mini','score',1795464927,1,800,600,9,0.25,'{"text":"to a","model":"gpt-5-mini-2026-08-07"}',2906754121,0);
INSERT INTO "replies" VALUES(2,X'32AABC93F8406FAB9AE142649130F89278A5BB0A207A34D554036209B4CFAB65','openai:gpt-5-mini','score',1795464927,1,800,600,9,0.25,'{"text":"to b","model":"gpt-5-mini-2026-08-07"}',2846644091,1);
INSERT INTO "replies" VALUES(3,X'0000000300000003000000030000000300000003000000030000000300000003','openai:gpt-5-mini','assess',1795464927,1,800,600,9,0.25,'{"text":"caf\u00e9","model":"gpt-5-mini-2026-08-07","finish_reason":"length","label_logprobs":{"Yes":-0.25},"continuation_logprobs":[-1.0,-Infinity],"answers":[1.0,{"problem":"odd"}]}',3891344852,0);
COMMIT;
